"""What if: real traces as scenarios of the lab (`traces`), and policies that are compared on them."""
