// What to do with a new key, by the client that a person has: the variables to set and a program to paste.
import { Tabs } from "radix-ui";
import type { ReactNode } from "react";
import { CopyBlock } from "../../ui/copy";
import { LoopSnippet } from "../../ui/loop-snippet";
import {
  curlProgram,
  openaiProgram,
  serverVariables,
  tinkerProgram,
  tinkerVariables,
} from "./key-snippets";

const tab =
  "-mb-px border-b-2 border-transparent py-2 font-medium text-muted hover:text-ink data-[state=active]:border-accent data-[state=active]:text-ink";

export function KeyPrograms({ secret, baseModel }: { secret: string; baseModel: string }) {
  const origin = location.origin;
  const variables = <CopyBlock label="shell" text={serverVariables(origin, secret)} />;
  return (
    <Tabs.Root defaultValue="sdk">
      <Tabs.List aria-label="Client" className="mb-3 flex flex-wrap gap-x-5 border-b border-line">
        <Tabs.Trigger value="sdk" className={tab}>
          TinkerScript SDK
        </Tabs.Trigger>
        <Tabs.Trigger value="openai" className={tab}>
          OpenAI client
        </Tabs.Trigger>
        <Tabs.Trigger value="curl" className={tab}>
          curl
        </Tabs.Trigger>
        <Tabs.Trigger value="tinker" className={tab}>
          Tinker client
        </Tabs.Trigger>
      </Tabs.List>
      <Content value="sdk">
        <LoopSnippet secret={secret} target={{ baseModel }} />
      </Content>
      <Content value="openai">
        {variables}
        <CopyBlock label="train.py" text={openaiProgram(baseModel)} />
      </Content>
      <Content value="curl">
        {variables}
        <CopyBlock label="train.sh" text={curlProgram(baseModel)} />
      </Content>
      <Content value="tinker">
        <CopyBlock label="shell" text={tinkerVariables(origin, secret)} />
        <CopyBlock label="program" text={tinkerProgram(baseModel)} />
      </Content>
    </Tabs.Root>
  );
}

function Content({ value, children }: { value: string; children: ReactNode }) {
  return (
    <Tabs.Content value={value} className="space-y-3">
      {children}
    </Tabs.Content>
  );
}
