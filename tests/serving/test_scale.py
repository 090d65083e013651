"""Several copies of the server: the files in examples/serving."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from headway.cli.main import application
from tests.fixtures.model_server import language_model

ROOT = Path(__file__).parents[2]
BUNDLE = language_model()


def test_the_kubernetes_file_starts_a_server_with_flags_that_exist():
    written = (ROOT / "examples/serving/kubernetes.yaml").read_text()
    deployment, service = yaml.safe_load_all(written)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    words = container["args"]  # of the command that the image starts
    assert words[0] == "serve" and "command" not in container
    _, bound, _ = application().parse_args(words, exit_on_error=False, print_error=False)
    flags = bound.arguments["flags"]
    assert flags.host == "0.0.0.0" and flags.key_file is not None and flags.log
    grace = flags.grace
    assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > grace + 5
    assert container["readinessProbe"]["httpGet"]["path"] == "/ready"
    assert container["livenessProbe"]["httpGet"]["path"] == "/health"
    (port,) = service["spec"]["ports"]
    assert port["targetPort"] == flags.port
    (host,) = container["livenessProbe"]["httpGet"]["httpHeaders"]
    assert host["value"] in flags.allow_host


STARTED = """
import sys
import ray
from ray import serve
from examples.serving.ray_serve import deployment

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
serve.start(http_options={"host": "127.0.0.1", "port": 8000})
serve.run(deployment)
print("started", flush=True)
sys.stdin.read()
serve.shutdown()
ray.shutdown()
"""


@pytest.mark.slow
def test_two_replicas_answer_as_one_server_and_one_may_die(tmp_path):
    pytest.importorskip("ray")
    BUNDLE.save(tmp_path / "gpt")
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    more = {"HEADWAY_RUNS": str(tmp_path / "gpt"), "PYTHONPATH": paths}
    process = subprocess.Popen(
        [sys.executable, "-c", STARTED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **more, "RAY_USAGE_STATS_ENABLED": "0"},
    )
    try:
        assert any(line.startswith("started") for line in process.stdout)
        expected = [
            BUNDLE.generate(["fox"], max_tokens=12, seed=n, temperature=1.0)[0][0].text
            for n in range(200)
        ]
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(answer, range(200))) == expected
            late = [pool.submit(answer, n) for n in range(200)]
            time.sleep(0.3)
            os.kill(replicas()[0], signal.SIGKILL)
            results = [future.exception() or future.result() for future in late]
        failed = sum(isinstance(result, Exception) for result in results)
        wrong = sum(a != b for a, b in zip(results, expected, strict=True)) - failed
        print(f"{failed} failed, {wrong} wrong")
        assert wrong == 0 and failed < 40
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


def answer(seed):
    fields = {"prompt": "fox", "max_tokens": 12, "seed": seed}
    request = urllib.request.Request(
        "http://127.0.0.1:8000/v1/completions",
        json.dumps(fields).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)["choices"][0]["text"]


def replicas():
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True).stdout
    lines = [line.split() for line in listed.splitlines() if "ServeReplica" in line]
    return [int(words[0]) for words in lines]
