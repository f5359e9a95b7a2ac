import unittest

from total import total


class Total(unittest.TestCase):
    def test_1_and_2(self):
        self.assertEqual(total(1, 2), 3)

    def test_5_and_3(self):
        self.assertEqual(total(5, 3), 8)

    def test_4_and_1(self):
        self.assertEqual(total(4, 1), 5)

    def test_7_and_2(self):
        self.assertEqual(total(7, 2), 9)
