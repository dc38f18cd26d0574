"""The pieces of the classifier's trainer that `motionkit ppo --mine` trains it on with; imports torch."""
