import unittest

from area import area


class Area(unittest.TestCase):
    def test_3_and_4(self):
        self.assertEqual(area(3, 4), 12)

    def test_5_and_2(self):
        self.assertEqual(area(5, 2), 10)

    def test_6_and_2(self):
        self.assertEqual(area(6, 2), 12)

    def test_7_and_3(self):
        self.assertEqual(area(7, 3), 21)
