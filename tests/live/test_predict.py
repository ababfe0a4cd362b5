# SPDX-License-Identifier: GPL-3.0-or-later
"""A sample of `make bench-wan`: two plans, made on links that agents measured, take as long as they say."""
import os
import subprocess
import sys
import unittest

import federation

HERE = os.path.dirname(os.path.abspath(__file__))


class Prediction(unittest.TestCase):
    def test_two_plans_take_as_long_as_they_say(self):
        done = subprocess.run((sys.executable, os.path.join(HERE, "predict.py"), "--stage", federation.installed, "--wan",
                               federation.built("tests/live/wan"), "--quick", "--steps", "3"),
                              capture_output=True, text=True, check=False, timeout=300)
        print("  " + done.stdout.rstrip().replace("\n", "\n  "))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
