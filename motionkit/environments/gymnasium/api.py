"""The heavy half: what environments that are gymnasium's underneath build on."""
