import unittest

from money import shared


class Shared(unittest.TestCase):
    def test_even(self):
        self.assertEqual(shared(900, 3), [300, 300, 300])

    def test_a_rest(self):
        self.assertEqual(shared(1000, 3), [334, 333, 333])

    def test_less_than_a_cent_each(self):
        self.assertEqual(shared(2, 3), [1, 1, 0])

    def test_nothing(self):
        self.assertEqual(shared(0, 2), [0, 0])
