import unittest

from area import area


class Area(unittest.TestCase):
    def test_3_and_4(self):
        self.assertEqual(area(3, 4), 12)

    def test_5_and_0(self):
        self.assertEqual(area(5, 0), 0)

    def test_6_and_1(self):
        self.assertEqual(area(6, 1), 6)

    def test_0_and_0(self):
        self.assertEqual(area(0, 0), 0)
