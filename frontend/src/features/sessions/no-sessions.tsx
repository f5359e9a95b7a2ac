// A project without a run, and the next step.
import { ButtonLink } from "../../ui/button";
import { Empty } from "../../ui/panel";
import { useMayWrite } from "../../use-may-write";

export function NoSessions() {
  if (!useMayWrite()) {
    return (
      <Empty title="No session yet">
        <p className="mb-3">Owners and members of the project start them. What they start is here.</p>
        <ButtonLink to="/manual">Open the manual</ButtonLink>
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
      <ButtonLink to="/keys" look="primary">Create an API key</ButtonLink>
    </Empty>
  );
}
