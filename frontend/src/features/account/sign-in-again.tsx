// A sign-in that ended while somebody typed: it is asked for over the page, whose forms stay as they are.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Dialog } from "radix-ui";
import { useEffect, useState, type SyntheticEvent } from "react";
import { accountQuery } from "../../api/account";
import { confirmCode, signIn } from "../../api/auth";
import { ApiError, fieldsOf } from "../../api/errors";
import { Button } from "../../ui/button";
import { TextField } from "../../ui/field";
import { ErrorNotice } from "../../ui/notice";

/** Marks forms in which somebody typed or chose something. */
export function useTypedMarks(): void {
  useEffect(() => {
    const mark = ({ target }: Event) => {
      if (target instanceof Element) target.closest("form")?.setAttribute("data-typed", "");
    };
    document.addEventListener("input", mark);
    return () => {
      document.removeEventListener("input", mark);
    };
  }, []);
}

/** Whether the page has something that was typed: then it is not left for the page of sign-ins. */
export function holdsTyped(page: ParentNode): boolean {
  return page.querySelector("form[data-typed]") !== null;
}

/** Nothing of the page is seen meanwhile: whoever sits there now may be another. */
export function SignInAgain({ email }: { email: string }) {
  return (
    <Dialog.Root open>
      <Dialog.Portal>
        <Dialog.Overlay className="fixed inset-0 z-30 bg-sunken" />
        <Dialog.Content
          aria-describedby={undefined}
          className="fixed top-1/2 left-1/2 z-40 w-[calc(100vw-3rem)] max-w-md -translate-x-1/2 -translate-y-1/2 rounded-xl border border-line bg-raised p-5 shadow-xl"
        >
          <Dialog.Title className="text-base font-semibold">Your sign-in has ended</Dialog.Title>
          <p className="mt-1 mb-4 text-muted">
            Sign in again as {email}. What you typed on the page is kept.
          </p>
          <Steps email={email} />
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function Steps({ email }: { email: string }) {
  const client = useQueryClient();
  const [password, setPassword] = useState("");
  const [code, setCode] = useState("");
  // Every list of the page is read anew, the account first: with it this dialog goes.
  const back = { onSuccess: () => client.invalidateQueries() };
  const enter = useMutation({ mutationFn: signIn, ...back });
  const confirm = useMutation({ mutationFn: confirmCode, ...back });
  const needsCode = enter.error instanceof ApiError && enter.error.code === "second_factor";
  const error = needsCode ? confirm.error : enter.error;
  const fields = fieldsOf(error);

  function submit(event: SyntheticEvent) {
    event.preventDefault();
    event.stopPropagation(); // React passes it on to a form that the dialog stands in
    if (needsCode) confirm.mutate(code.trim());
    else enter.mutate({ email, password });
  }

  return (
    <form onSubmit={submit} className="space-y-4" noValidate>
      <ErrorNotice error={error} />
      {needsCode ? (
        <TextField
          label="Code"
          inputMode="numeric"
          autoComplete="one-time-code"
          autoFocus
          value={code}
          onChange={setCode}
          description="From your authenticator app; or one of your recovery codes."
          error={fields.code}
        />
      ) : (
        <TextField
          label="Password"
          type="password"
          autoComplete="current-password"
          autoFocus
          value={password}
          onChange={setPassword}
          error={fields.password}
        />
      )}
      <div className="flex flex-wrap items-center justify-between gap-3">
        <a
          href="/signin"
          target="_blank"
          rel="noreferrer"
          className="rounded text-accent underline underline-offset-2"
        >
          Another way, in a new tab
        </a>
        <span className="flex gap-2">
          <Button
            onClick={() => {
              void client.invalidateQueries({ queryKey: accountQuery.queryKey });
            }}
          >
            I have signed in
          </Button>
          <Button type="submit" look="primary" disabled={enter.isPending || confirm.isPending}>
            Sign in
          </Button>
        </span>
      </div>
    </form>
  );
}
