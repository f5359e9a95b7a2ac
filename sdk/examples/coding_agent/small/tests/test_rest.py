import unittest

from rest import rest


class Rest(unittest.TestCase):
    def test_5_and_2(self):
        self.assertEqual(rest(5, 2), 3)

    def test_7_and_3(self):
        self.assertEqual(rest(7, 3), 4)

    def test_4_and_1(self):
        self.assertEqual(rest(4, 1), 3)

    def test_9_and_6(self):
        self.assertEqual(rest(9, 6), 3)
