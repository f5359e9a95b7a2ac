"""Writes the templates of the Helm chart from the plain manifests: python docker/chart.py [FOLDER]

docker/kubernetes is where an object is changed; what an operator chooses becomes a value here. With
their values the chart's objects are those of the manifests (tests/docker/test_chart.py).
"""

import sys
from pathlib import Path

DOCKER = Path(__file__).resolve().parent
MADE = "{{/* Made by docker/chart.py from docker/kubernetes/%s. */}}\n"
OWN, RUNTIMES = "{{ .Release.Namespace }}", "{{ .Values.runtimes.namespace }}"
APART = """\
{{- if eq .Values.runtimes.namespace .Release.Namespace }}
{{- fail "runtimes.namespace is the namespace of the release: who makes Jobs there would reach the server's Secret" }}
{{- else }}
"""
HOST = '{{ (urlParse .Values.publicUrl).host | splitList ":" | first }}'
# The pods of a deployment start anew when the settings change.
CHECKSUM = """\
      annotations:
        checksum/settings: {{ include (print $.Template.BasePath "/settings.yaml") . | sha256sum }}
"""
PULL = """\
      {{- with .Values.imagePullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
"""
POD_CONTEXT = "      securityContext:\n        runAsNonRoot: true\n"
RELAY_CALLS = """\
    {{- with .Values.web.autoscaling.relayCalls }}
    - type: Pods
      pods:
        metric: {name: tinkerscript_relay_in_flight}
        target: {type: AverageValue, averageValue: {{ . | quote }}}
    {{- end }}
"""
REPLICAS = "  {{- if not .Values.web.autoscaling.enabled }}\n  replicas: {{ .Values.web.replicas }}\n  {{- end }}\n"
INGRESS_CLASS = "  {{- with .Values.ingress.className }}\n  ingressClassName: {{ . }}\n  {{- end }}\n"

Rules = list[tuple[str, str]]
SPACES: Rules = [
    ("{namespace: tinkerscript-runtimes,", f"{{namespace: {RUNTIMES},"),
    ("{namespace: tinkerscript,", f"{{namespace: {OWN},"),
    ("namespace: tinkerscript-runtimes\n", f"namespace: {RUNTIMES}\n"),
    ("namespace: tinkerscript\n", f"namespace: {OWN}\n"),
    ("metadata.name: tinkerscript-runtimes}", f"metadata.name: {RUNTIMES}}}"),
]
POD: Rules = [
    ("image: tinkerscript-server\n", 'image: "{{ .Values.image.server }}"\n'),
    ("secretRef: {name: tinkerscript}", "secretRef: {name: {{ .Values.secret }}}"),
    (POD_CONTEXT, PULL + POD_CONTEXT),
]


def resources(name: str, cpu: str, memory: str, limit: str) -> tuple[str, str]:
    """A container's resources become a value of ``name``."""
    plain = (
        f"resources:\n            requests: {{cpu: {cpu}, memory: {memory}}}\n            limits: {{memory: {limit}}}\n"
    )
    return plain, f"resources: {{{{- toYaml .Values.{name}.resources | nindent 12 }}}}\n"


def restarted(app: str) -> tuple[str, str]:
    labels = (
        f"      labels: {{app.kubernetes.io/name: tinkerscript, app.kubernetes.io/component: server, app: {app}}}\n"
    )
    return labels, labels + CHECKSUM


def setting(name: str, plain: str, value: str) -> tuple[str, str]:
    return f"  {name}: {plain}\n", f"  {name}: {{{{ {value} | quote }}}}\n"


def conditional(value: str) -> tuple[str, str]:
    """The whole file is there if ``value`` is; the first rule of a file. A rule without an old text opens a block."""
    return "", f"{{{{- if {value} }}}}\n"


RULES: dict[str, Rules] = {
    "access.yaml": [("", APART)],
    "data.yaml": [
        conditional(".Values.storage.create"),
        ("  name: tinkerscript-runtimes-data\n", f"  name: {RUNTIMES}-data\n"),
        ("  volumeName: tinkerscript-runtimes-data\n", f"  volumeName: {RUNTIMES}-data\n"),
        ("kind: PersistentVolume\nmetadata:\n  name: tinkerscript-data\n",
         f"kind: PersistentVolume\nmetadata:\n  name: {OWN}-data\n"),
        ("  volumeName: tinkerscript-data\n", f"  volumeName: {OWN}-data\n"),
        ("{storage: 500Gi}", "{storage: {{ .Values.storage.size }}}"),
        ("  nfs: {server: nfs.example.com, path: /tinkerscript}\n",
         "  {{- toYaml .Values.storage.volume | nindent 2 }}\n"),
    ],
    "lease.yaml": [
        ("  replicas: 2\n", "  replicas: {{ .Values.lease.replicas }}\n"),
        resources("lease", "250m", "256Mi", "1Gi"),
        restarted("lease"),
        *POD,
    ],
    "namespace.yaml": [
        conditional(".Values.runtimes.createNamespace"),
        ("  name: tinkerscript-runtimes\n", f"  name: {RUNTIMES}\n"),
    ],
    "network.yaml": [conditional(".Values.networkPolicies")],
    "prepare.yaml": [
        ("# Migrations and the bucket, once per deployment. Delete it before applying a new version.\n",
         "# Migrations and the bucket, once per revision.\n"),
        ("  name: prepare\n  namespace", "  name: prepare-{{ .Release.Revision }}\n  namespace"),
        resources("prepare", "100m", "256Mi", "1Gi"),
        *POD,
    ],
    "public.yaml": [
        ("# How the world", "{{- if .Values.ingress.enabled }}\n# How the world"),
        ("---\n# By CPU", "{{- end }}\n{{- if .Values.web.autoscaling.enabled }}\n---\n# By CPU"),
        ("spec:\n  tls:\n", f"spec:\n{INGRESS_CLASS}  tls:\n"),
        ("    - hosts: [tinkerscript.example.com]\n", f'    - hosts: ["{HOST}"]\n'),
        ("      secretName: tinkerscript-tls\n", "      secretName: {{ .Values.ingress.tlsSecret }}\n"),
        ("    - host: tinkerscript.example.com\n", f'    - host: "{HOST}"\n'),
        ("  minReplicas: 2\n", "  minReplicas: {{ .Values.web.autoscaling.minReplicas }}\n"),
        ("  maxReplicas: 10\n", "  maxReplicas: {{ .Values.web.autoscaling.maxReplicas }}\n"),
        ("averageUtilization: 70}\n",
         "averageUtilization: {{ .Values.web.autoscaling.cpuPercent }}}\n" + RELAY_CALLS),
    ],
    "reconcile.yaml": [
        ("  replicas: 2\n", "  replicas: {{ .Values.reconcile.replicas }}\n"),
        resources("reconcile", "100m", "256Mi", "1Gi"),
        restarted("reconcile"),
        *POD,
    ],
    "settings.yaml": [
        setting("TINKERSCRIPT_PUBLIC_URL", "https://tinkerscript.example.com", ".Values.publicUrl"),
        ('  TINKERSCRIPT_TRUSTED_PROXIES: "1"  # the ingress controller\n',
         "  TINKERSCRIPT_TRUSTED_PROXIES: {{ .Values.trustedProxies | quote }}\n"),
        setting("TINKERSCRIPT_MAX_RUNTIMES", '"8"', ".Values.runtimes.max"),
        setting("S3_ENDPOINT_URL", "https://s3.example.com", ".Values.s3.endpointUrl"),
        setting("S3_BUCKET", "tinkerscript", ".Values.s3.bucket"),
        ("http://lease.tinkerscript.svc:8000", f"http://lease.{OWN}.svc:8000"),
        setting("TINKERSCRIPT_RUNTIME_IMAGE", "tinkerscript-runtime:0.2.0-cuda", ".Values.image.runtime"),
        setting("TINKERSCRIPT_RUNTIME_CPUS", '"8"', ".Values.runtimes.cpus"),
        setting("TINKERSCRIPT_RUNTIME_MEMORY_GIB", '"64"', ".Values.runtimes.memoryGib"),
        setting("TINKERSCRIPT_RUNTIME_GPUS", '"1"', ".Values.runtimes.gpus"),
        ("  TINKERSCRIPT_KUBERNETES_NAMESPACE: tinkerscript-runtimes\n",
         f"  TINKERSCRIPT_KUBERNETES_NAMESPACE: {RUNTIMES}\n"),
        ("  TINKERSCRIPT_KUBERNETES_CLAIM: tinkerscript-data\n",
         "  TINKERSCRIPT_KUBERNETES_CLAIM: tinkerscript-data\n  {{- range $name, $value := .Values.settings }}\n"
         "  {{ $name }}: {{ $value | quote }}\n  {{- end }}\n"),
    ],
    "web.yaml": [
        ("spec:  # how many: public.yaml\n", f"spec:\n{REPLICAS}"),
        resources("web", "500m", "512Mi", "2Gi"),
        restarted("web"),
        *POD,
    ],
}  # fmt: skip


def template(name: str) -> str:
    """The template of a manifest. Raises ValueError for a rule that finds nothing: the manifest has changed."""
    text = (DOCKER / "kubernetes" / name).read_text()
    if name == "namespace.yaml":  # that of the release is Helm's to make
        text = text.partition("---\n")[2]
    end = ""
    for old, new in RULES[name]:
        if not old:
            text, end = new + text, "{{- end }}\n"
        elif old in text:
            text = text.replace(old, new)
        else:
            raise ValueError(f"docker/chart.py: {name} has no {old!r}")
    if name == "public.yaml":
        text = _annotations(text)
    for old, new in SPACES:
        text = text.replace(old, new)
    return MADE % name + text + end


def _annotations(text: str) -> str:
    """Those of the controller are a value; the disruption budgets, after the autoscaler, are always there."""
    before, _, rest = text.partition("  annotations:\n")
    after = rest[rest.index("spec:\n") :]
    budgets = after.index("---\napiVersion: policy/v1\n")
    after = after[:budgets] + "{{- end }}\n" + after[budgets:]
    return before + "  annotations: {{- toYaml .Values.ingress.annotations | nindent 4 }}\n" + after


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in RULES:
        (folder / name).write_text(template(name))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCKER / "helm" / "templates")
