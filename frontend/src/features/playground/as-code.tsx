// A conversation as a program that goes on where it is.
import { useState } from "react";
import { Button } from "../../ui/button";
import type { ChatBody } from "../../ui/call-snippets";
import { CopyBlock } from "../../ui/copy";
import { programsOf } from "./programs";
import type { Target } from "./targets";

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
  const { needs, python, curl } = programsOf(target, body, location.origin);
  return (
    <>
      <p className="text-xs text-muted">{needs}</p>
      {curl && <CopyBlock label="curl" text={curl} />}
      <CopyBlock label="Python" text={python} />
    </>
  );
}
