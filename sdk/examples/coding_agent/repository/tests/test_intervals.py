import unittest

from intervals import merged


class Merged(unittest.TestCase):
    def test_apart(self):
        self.assertEqual(merged([(5, 6), (1, 2)]), [(1, 2), (5, 6)])

    def test_overlapping(self):
        self.assertEqual(merged([(1, 4), (3, 6)]), [(1, 6)])

    def test_inside(self):
        self.assertEqual(merged([(1, 9), (3, 4)]), [(1, 9)])

    def test_touching(self):
        self.assertEqual(merged([(1, 3), (3, 6)]), [(1, 6)])

    def test_none(self):
        self.assertEqual(merged([]), [])
