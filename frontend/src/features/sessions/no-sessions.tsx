// A project without a run, the next step, and a run of ours to look at meanwhile.
import type { ReactNode } from "react";
import { DEMO } from "../../api/offline";
import { ButtonAnchor, ButtonLink } from "../../ui/button";
import { Empty } from "../../ui/panel";
import { useMayWrite } from "../../use-may-write";

export function NoSessions() {
  if (!useMayWrite()) {
    return (
      <Empty title="No session yet">
        <p className="mb-3">
          Owners and members of the project start them. What they start is here.
        </p>
        <NextSteps>
          <ButtonLink to="/manual">Open the manual</ButtonLink>
        </NextSteps>
      </Empty>
    );
  }
  return (
    <Empty title="No session yet">
      <ol className="mb-4 list-decimal space-y-1 pl-5 text-left">
        <li>Create an API key and set it in your shell.</li>
        <li>Paste the loop that comes with it: it starts a session by itself.</li>
        <li>Watch the reward here while it runs.</li>
      </ol>
      <NextSteps>
        <ButtonLink to="/keys" look="primary">
          Create an API key
        </ButtonLink>
      </NextSteps>
    </Empty>
  );
}

function NextSteps({ children }: { children: ReactNode }) {
  return (
    <>
      <p className="flex flex-wrap justify-center gap-2">
        {children}
        <ButtonAnchor href={DEMO}>Explore a demo run</ButtonAnchor>
      </p>
      <p className="mt-2 text-xs">
        The demo run is a recording of the quickstart: charts, episodes and tokens to read.
      </p>
    </>
  );
}
