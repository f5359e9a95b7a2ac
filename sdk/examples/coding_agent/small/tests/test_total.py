import unittest

from total import total


class Total(unittest.TestCase):
    def test_1_and_2(self):
        self.assertEqual(total(1, 2), 3)

    def test_5_and_0(self):
        self.assertEqual(total(5, 0), 5)

    def test_4_and_4(self):
        self.assertEqual(total(4, 4), 8)

    def test_0_and_0(self):
        self.assertEqual(total(0, 0), 0)
