// Go anywhere and do what the page offers, by keyboard: pages, runs, projects, documents. Opened with Ctrl+K or ⌘K.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Command } from "cmdk";
import { Dialog } from "radix-ui";
import { useDeferredValue, useRef, useState, type ReactNode } from "react";
import { useLocation, useNavigate } from "react-router";
import { chooseProject, currentProject } from "../../api/project";
import { sessionsPage } from "../../api/sessions";
import type { Account } from "../../api/types";
import { chooseTheme, chosenTheme, THEMES } from "../../ui/theme";
import { UserText } from "../../ui/plain-text";
import { runIn } from "../../address";
import { useFinds } from "./finds";
import { pageActions } from "./page-actions";

const RUNS = 20;
const DOCUMENTS = [
  { name: "API reference", address: "/docs" },
  { name: "OpenAPI document", address: "/openapi.json" },
];

interface PaletteProps {
  account: Account;
  pages: readonly { to: string; label: string }[];
  open: boolean;
  onOpenChange: (open: boolean) => void;
}

export function CommandPalette({ account, pages, open, onOpenChange }: PaletteProps) {
  const chosen = useRef<(() => void) | null>(null);
  const before = useRef<Element | null>(null);
  return (
    <Dialog.Root open={open} onOpenChange={onOpenChange}>
      <Dialog.Portal>
        <Dialog.Overlay className="fixed inset-0 z-10 bg-black/45" />
        <Dialog.Content
          aria-describedby={undefined}
          className="fixed top-[12vh] left-1/2 z-20 w-[calc(100vw-2rem)] max-w-xl -translate-x-1/2 overflow-hidden rounded-xl border border-line bg-raised shadow-xl"
          onOpenAutoFocus={() => {
            before.current = document.activeElement;
          }}
          onCloseAutoFocus={() => {
            // Radix knows its own trigger alone, and keys have none.
            if (before.current instanceof HTMLElement) before.current.focus();
            // Once focus is back on the page: what is chosen may open a dialog of its own.
            const run = chosen.current;
            chosen.current = null;
            if (run) setTimeout(run);
          }}
        >
          <Dialog.Title className="sr-only">Go to or do</Dialog.Title>
          <Choices
            account={account}
            pages={pages}
            onChoose={(run) => {
              chosen.current = run;
              onOpenChange(false);
            }}
          />
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function Choices({
  account,
  pages,
  onChoose,
}: Pick<PaletteProps, "account" | "pages"> & { onChoose: (run: () => void) => void }) {
  const navigate = useNavigate();
  const [typed, setTyped] = useState("");
  const [actions] = useState(() => pageActions(document));
  const runs = useRuns(typed.trim());
  const { pathname } = useLocation();
  const { finds, isFetching, hint } = useFinds(typed, runIn(pathname));
  const go = (to: string) => {
    onChoose(() => void navigate(to));
  };
  const others = account.projects.filter((project) => project.id !== currentProject(account)?.id);
  return (
    <Command label="Go to or do" loop>
      <Command.Input
        value={typed}
        onValueChange={setTyped}
        placeholder="Go to a run, an episode, a step, an option, a key, a page, or do…"
        maxLength={120}
        className="h-12 w-full border-b border-line bg-transparent px-4 text-base outline-none placeholder:text-muted"
      />
      <Command.List className="max-h-[60vh] overflow-y-auto p-2">
        <Command.Empty className="px-3 py-6 text-center text-muted">
          {runs.isFetching || isFetching ? "Looking…" : hint || "Nothing matches"}
        </Command.Empty>
        {actions.length > 0 && (
          <Group heading="On this page">
            {actions.map((action) => (
              <Item
                key={action.name}
                value={`do ${action.name}`}
                name={action.name}
                onSelect={() => {
                  onChoose(action.run);
                }}
              />
            ))}
          </Group>
        )}
        <Group heading="Pages">
          {[
            ...pages,
            { to: "/sessions/new", label: "New session" },
            { to: "/account", label: "Account" },
          ].map(({ to, label }) => (
            <Item
              key={to}
              value={`page ${label}`}
              name={label}
              onSelect={() => {
                go(to);
              }}
            />
          ))}
        </Group>
        {runs.error && (
          <p role="alert" className="px-3 py-2 text-xs text-bad">
            Runs cannot be listed: {runs.error.message}
          </p>
        )}
        <Group heading="Runs">
          {runs.data?.items.map((session) => (
            <Item
              key={session.id}
              value={`run ${session.name} ${session.id}`}
              name={session.name || session.id}
              note={session.state}
              onSelect={() => {
                go(`/sessions/${session.id}`);
              }}
            />
          ))}
        </Group>
        {[...new Set(finds.map(({ group }) => group))].map((group) => (
          <Group key={group} heading={group}>
            {finds
              .filter((find) => find.group === group)
              .map(({ name, note, to }) => (
                // Found by what was typed already: the list's own search lets it stand.
                <Item
                  key={`${to} ${name}`}
                  value={`find ${to} ${name} ${typed.trim()}`}
                  name={name}
                  note={note}
                  onSelect={() => {
                    go(to);
                  }}
                />
              ))}
          </Group>
        ))}
        {others.length > 0 && (
          <Group heading="Projects">
            {others.map((project) => (
              <Item
                key={project.id}
                value={`project ${project.name} ${project.id}`}
                name={project.name}
                note={project.role}
                onSelect={() => {
                  onChoose(() => {
                    chooseProject(project.id);
                  });
                }}
              />
            ))}
          </Group>
        )}
        <Group heading="Theme">
          {THEMES.map(({ value, name }) => (
            <Item
              key={value}
              value={`${name} theme`}
              name={`${name} theme`}
              note={value === chosenTheme() ? "chosen" : ""}
              onSelect={() => {
                onChoose(() => {
                  chooseTheme(value);
                });
              }}
            />
          ))}
        </Group>
        <Group heading="Documents">
          {DOCUMENTS.map(({ name, address }) => (
            <Item
              key={address}
              value={`document ${name}`}
              name={name}
              onSelect={() => {
                onChoose(() => {
                  window.location.assign(address);
                });
              }}
            />
          ))}
        </Group>
      </Command.List>
    </Command>
  );
}

/** Looked for by the server: a project may have thousands. */
function useRuns(typed: string) {
  const name = useDeferredValue(typed);
  return useQuery({
    queryKey: ["palette", name],
    queryFn: () => sessionsPage({ states: [], name }, "", RUNS),
    placeholderData: keepPreviousData,
  });
}

function Group({ heading, children }: { heading: string; children: ReactNode }) {
  return (
    <Command.Group
      heading={heading}
      className="**:[[cmdk-group-heading]]:px-3 **:[[cmdk-group-heading]]:py-1.5 **:[[cmdk-group-heading]]:text-xs **:[[cmdk-group-heading]]:font-medium **:[[cmdk-group-heading]]:text-muted"
    >
      {children}
    </Command.Group>
  );
}

function Item({
  value,
  name,
  note = "",
  onSelect,
}: {
  value: string;
  name: string;
  note?: string;
  onSelect: () => void;
}) {
  return (
    <Command.Item
      value={value}
      onSelect={onSelect}
      className="flex cursor-pointer items-center gap-2 rounded-md px-3 py-2 data-[selected=true]:bg-accent-soft"
    >
      <UserText className="min-w-0 truncate" text={name} />
      {note && <span className="ml-auto text-xs text-muted">{note}</span>}
    </Command.Item>
  );
}
