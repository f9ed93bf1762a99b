"""A node as a whole: composed in one place, its loop, its learner; and a node that trains alone."""
