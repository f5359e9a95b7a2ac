import unittest

from rest import rest


class Rest(unittest.TestCase):
    def test_5_and_2(self):
        self.assertEqual(rest(5, 2), 3)

    def test_7_and_0(self):
        self.assertEqual(rest(7, 0), 7)

    def test_4_and_4(self):
        self.assertEqual(rest(4, 4), 0)

    def test_0_and_0(self):
        self.assertEqual(rest(0, 0), 0)
