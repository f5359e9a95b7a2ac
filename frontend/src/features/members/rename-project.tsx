// Gives the project another name.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState, type SyntheticEvent } from "react";
import { accountQuery } from "../../api/account";
import { fieldsOf } from "../../api/errors";
import { renameProject } from "../../api/members";
import type { Project } from "../../api/types";
import { Button } from "../../ui/button";
import { Dialog } from "../../ui/dialog";
import { TextField } from "../../ui/field";
import { ErrorNotice } from "../../ui/notice";

export function RenameProject({ project }: { project: Project }) {
  const [open, setOpen] = useState(false);
  const [name, setName] = useState(project.name);
  const client = useQueryClient();
  const rename = useMutation({
    meta: { done: "The project is renamed" },
    mutationFn: renameProject,
    onSuccess: async () => {
      setOpen(false);
      await client.invalidateQueries({ queryKey: accountQuery.queryKey });
    },
  });

  function onSubmit(event: SyntheticEvent) {
    event.preventDefault();
    rename.mutate({ id: project.id, name: name.trim() });
  }

  return (
    <>
      <Button
        onClick={() => {
          setName(project.name);
          rename.reset();
          setOpen(true);
        }}
      >
        Rename project
      </Button>
      <Dialog
        open={open}
        onOpenChange={setOpen}
        title="Rename the project"
        description="Its id stays, so programs do not notice."
      >
        <form onSubmit={onSubmit} className="space-y-4" noValidate>
          <ErrorNotice error={rename.error} />
          <TextField
            label="Name"
            maxLength={120}
            value={name}
            onChange={setName}
            error={fieldsOf(rename.error).name}
          />
          <div className="flex justify-end">
            <Button type="submit" look="primary" disabled={rename.isPending}>
              Rename
            </Button>
          </div>
        </form>
      </Dialog>
    </>
  );
}
