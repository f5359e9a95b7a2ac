#!/bin/sh
# SeaweedFS as the S3 server of compose.yaml: S3_ACCESS_KEY and S3_SECRET_KEY are the one identity that it knows.
# Port 8333 is S3. Its other ports ask for a certificate, whose key is in FOLDER, and for tokens of this start.
set -eu
umask 077
cd "${1:?usage: store.sh FOLDER}"
PYTHONPATH=/app python3 -m console.object_store.weed_security .
cat >identities.json <<JSON
{"identities": [{"name": "console", "actions": ["Admin", "Read", "Write", "List", "Tagging"],
  "credentials": [{"accessKey": "${S3_ACCESS_KEY:?}", "secretKey": "${S3_SECRET_KEY:?}"}]}]}
JSON
mkdir -p data
exec weed -logtostderr=true mini -dir=data -ip=127.0.0.1 -ip.bind=0.0.0.0 -master.telemetry=false -master.peers=none \
  -admin.ui=false -webdav=false -filer.localSocket=filer.sock -s3.localSocket=s3.sock -s3.port=8333 \
  -s3.port.iceberg=0 -s3.port.lance=0 -s3.config=identities.json
