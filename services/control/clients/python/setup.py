"""Generates the messages from control.proto when the package is built."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

PROTO = Path(__file__).resolve().parent.parent.parent / "rpc"


class Generate(build_py):
    def run(self):
        super().run()
        from grpc_tools import protoc  # of the build

        out = self.build_lib
        arguments = ["protoc", f"-Idyno_control={PROTO}", f"--python_out={out}", f"--grpc_python_out={out}", "dyno_control/control.proto"]
        if protoc.main(arguments) != 0:
            raise SystemExit("dyno-control: control.proto could not be compiled")


setup(cmdclass={"build_py": Generate})
