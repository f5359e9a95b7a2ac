// A conversation as a program that goes on where it is.
import { useState } from "react";
import { Button } from "../../ui/button";
import { curlSnippet, policySnippet, PROJECT_KEY, pythonSnippet, type ChatBody } from "../../ui/call-snippets";
import { CopyBlock } from "../../ui/copy";
import type { Target } from "./targets";

const ENDPOINT_KEY = "ENDPOINT_API_KEY";

export function AsCode({ target, body }: { target: Target; body: Omit<ChatBody, "model"> }) {
  const [shown, setShown] = useState(false);
  return (
    <div className="space-y-2">
      <Button
        look="quiet"
        className="h-6 px-2 text-xs"
        aria-expanded={shown}
        onClick={() => {
          setShown(!shown);
        }}
      >
        {shown ? "Hide code" : "Open in code"}
      </Button>
      {shown && <Programs target={target} body={body} />}
    </div>
  );
}

function Programs({ target, body }: { target: Target; body: Omit<ChatBody, "model"> }) {
  if ("session" in target && target.session.kind !== "serving") {
    return (
      <>
        <p className="text-xs text-muted">It needs the client and the two variables that a new key shows (“API keys”).</p>
        <CopyBlock label="Python" text={policySnippet(target.session.id, body)} />
      </>
    );
  }
  const isOurs = "session" in target;
  const baseUrl = isOurs ? `${location.origin}/oai/api/v1` : target.outside.baseUrl;
  const key = isOurs ? PROJECT_KEY : ENDPOINT_KEY;
  const whole: ChatBody = { model: isOurs ? target.session.id : target.outside.model, ...body };
  return (
    <>
      <p className="text-xs text-muted">{isOurs ? `${PROJECT_KEY} is a key of this project (“API keys”).` : `${ENDPOINT_KEY} is the key of the endpoint.`}</p>
      <CopyBlock label="curl" text={curlSnippet(baseUrl, whole, key)} />
      <CopyBlock label="Python" text={pythonSnippet(baseUrl, whole, key)} />
    </>
  );
}
