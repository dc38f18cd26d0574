"""Success classifiers, measured: held-out figures, and checks that find what ruins a learned reward."""
