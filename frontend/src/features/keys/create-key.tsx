// Makes a key and shows its secret once, with the program to paste. The secret lives in this dialog alone.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Tabs } from "radix-ui";
import { useState, type ReactNode } from "react";
import { baseModelsQuery } from "../../api/server";
import { createKey, keysQuery } from "../../api/keys";
import { Button } from "../../ui/button";
import { CopyBlock } from "../../ui/copy";
import { Dialog } from "../../ui/dialog";
import { Loading } from "../../ui/loading";
import { LoopSnippet } from "../../ui/loop-snippet";
import { KeyForm } from "./key-form";
import {
  curlProgram,
  openaiProgram,
  serverVariables,
  tinkerProgram,
  tinkerVariables,
} from "./key-snippets";

export function CreateKey({ readOnly }: { readOnly: boolean }) {
  const [open, setOpen] = useState(false);
  const { data: models, isPending } = useQuery(baseModelsQuery);
  const client = useQueryClient();
  const create = useMutation({
    mutationFn: createKey,
    gcTime: 0,
    onSuccess: () => client.invalidateQueries({ queryKey: keysQuery.queryKey }),
  });

  function onOpenChange(next: boolean) {
    setOpen(next);
    if (!next) create.reset();
  }

  return (
    <>
      <Button
        look="primary"
        onClick={() => {
          setOpen(true);
        }}
      >
        New key
      </Button>
      <Dialog
        open={open}
        onOpenChange={onOpenChange}
        title={create.data ? "Your new key" : "New API key"}
        description={
          create.data
            ? "Copy it now: it is stored only as a hash and cannot be shown again."
            : "A name helps you to distinguish keys when you revoke one."
        }
        wide={Boolean(create.data)}
        sticky={Boolean(create.data)}
      >
        {create.data ? (
          <Created
            secret={create.data.secret}
            baseModel={models?.items[0]?.name ?? "SmolLM2-135M-Instruct"}
            onDone={() => {
              onOpenChange(false);
            }}
          />
        ) : isPending ? (
          // Models that came later would push the button away from under the pointer.
          <Loading />
        ) : (
          <KeyForm
            models={models?.items ?? []}
            error={create.error}
            busy={create.isPending}
            readOnly={readOnly}
            onSubmit={create.mutate}
          />
        )}
      </Dialog>
    </>
  );
}

function Created({
  secret,
  baseModel,
  onDone,
}: {
  secret: string;
  baseModel: string;
  onDone: () => void;
}) {
  return (
    <div className="space-y-3">
      <CopyBlock label="API key" text={secret} />
      <p className="pt-1 font-medium">Use it</p>
      <KeyPrograms secret={secret} baseModel={baseModel} />
      <div className="flex justify-end pt-1">
        <Button look="primary" onClick={onDone}>
          Done, I have copied it
        </Button>
      </div>
    </div>
  );
}

const tab =
  "-mb-px border-b-2 border-transparent py-2 font-medium text-muted hover:text-ink data-[state=active]:border-accent data-[state=active]:text-ink";

/** What to do with a new key, by the client that a person has: the variables to set and a program to paste. */
function KeyPrograms({ secret, baseModel }: { secret: string; baseModel: string }) {
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
