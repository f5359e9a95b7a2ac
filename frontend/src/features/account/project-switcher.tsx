// Which project is worked in, and the way to another or a new one.
import { useMutation } from "@tanstack/react-query";
import { ChevronDown } from "lucide-react";
import { DropdownMenu } from "radix-ui";
import { useState, type SyntheticEvent } from "react";
import { createProject } from "../../api/account";
import { fieldsOf } from "../../api/errors";
import { chooseProject, currentProject } from "../../api/project";
import type { Account } from "../../api/types";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { TextField } from "../../ui/field";
import { ErrorNotice } from "../../ui/notice";
import { visible, UserText } from "../../ui/plain-text";

const item = "cursor-pointer rounded px-2.5 py-1.5 outline-none data-highlighted:bg-sunken";

export function ProjectSwitcher({ account }: { account: Account }) {
  const [creating, setCreating] = useState(false);
  const current = currentProject(account);
  return (
    <>
      <DropdownMenu.Root>
        <DropdownMenu.Trigger
          aria-label={`Project ${visible(current?.name ?? "")}`}
          className="flex min-w-0 items-center gap-1.5 rounded-md font-semibold hover:text-accent"
        >
          <span className="truncate" data-testid="project">
            {current ? <UserText text={current.name} /> : "No project"}
          </span>
          <ChevronDown className="size-3.5 shrink-0" />
        </DropdownMenu.Trigger>
        <DropdownMenu.Portal>
          <DropdownMenu.Content
            align="start"
            sideOffset={4}
            className="z-10 min-w-48 rounded-md border border-line bg-raised p-1 shadow-lg"
          >
            <DropdownMenu.RadioGroup value={current?.id ?? ""} onValueChange={chooseProject}>
              {account.projects.map((project) => (
                <DropdownMenu.RadioItem
                  key={project.id}
                  value={project.id}
                  className={`${item} data-[state=checked]:font-semibold`}
                >
                  <UserText text={project.name} />{" "}
                  <span className="text-xs text-muted">{project.role}</span>
                </DropdownMenu.RadioItem>
              ))}
            </DropdownMenu.RadioGroup>
            <DropdownMenu.Separator className="my-1 h-px bg-line" />
            <DropdownMenu.Item
              className={item}
              onSelect={() => {
                setCreating(true);
              }}
            >
              New project…
            </DropdownMenu.Item>
          </DropdownMenu.Content>
        </DropdownMenu.Portal>
      </DropdownMenu.Root>
      <CreateProject open={creating} onOpenChange={setCreating} />
    </>
  );
}

function CreateProject({
  open,
  onOpenChange,
}: {
  open: boolean;
  onOpenChange: (open: boolean) => void;
}) {
  const [name, setName] = useState("");
  const create = useMutation({
    mutationFn: createProject,
    onSuccess: (project) => {
      chooseProject(project.id);
    },
  });

  function onSubmit(event: SyntheticEvent) {
    event.preventDefault();
    create.mutate(name.trim());
  }

  return (
    <Dialog
      open={open}
      onOpenChange={onOpenChange}
      title="New project"
      description="You own it, and can invite others to it."
    >
      <form onSubmit={onSubmit} className="space-y-4" noValidate>
        <ErrorNotice error={create.error} />
        <TextField
          label="Name"
          maxLength={120}
          value={name}
          onChange={setName}
          error={fieldsOf(create.error).name}
        />
        <div className="flex justify-end">
          <Button type="submit" look="primary" disabled={create.isPending}>
            Create project
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
