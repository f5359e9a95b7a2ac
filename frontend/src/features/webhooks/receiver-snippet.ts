// The program that a new webhook comes with: it listens, checks who is speaking, and prints what happened.

export function secretSnippet(secret: string): string {
  return `export WEBHOOK_SECRET=${secret}`;
}

export const RECEIVER_SNIPPET = `# Needs the client of this server: the page of a new API key says how to install it.
import os
from http.server import BaseHTTPRequestHandler, HTTPServer

from tinkerscript.webhooks import HEADER, BadSignature, verify

SECRET = os.environ["WEBHOOK_SECRET"]

class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            event = verify(body, self.headers.get(HEADER, ""), SECRET)
            print(event.topic, event.data, flush=True)
            self.send_response(204)
        except BadSignature:
            self.send_response(401)
        self.end_headers()

HTTPServer(("", 8080), Receiver).serve_forever()
`;
