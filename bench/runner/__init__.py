"""What runs the rows of ../rows and writes down what they gave."""
