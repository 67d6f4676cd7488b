import unittest


class TestLab03(unittest.TestCase):
    def test_lab03_ascii(self):
        self.assertEqual(1, 1)

    def test_lab03_emoji(self):
        self.assertEqual("🚀".encode().decode(), "🚀")
