"""The handout's figures, drawn by code into `assignment/figures/`. The command line imports this; it imports the reference."""
