// Where the link in a reset mail leads.
import { useMutation } from "@tanstack/react-query";
import { useState, type SyntheticEvent } from "react";
import { useParams } from "react-router";
import { resetPassword } from "../../api/auth";
import { fieldsOf } from "../../api/errors";
import { Button, ButtonLink } from "../../ui/button";
import { TextField } from "../../ui/field";
import { ErrorNotice, Notice } from "../../ui/notice";
import { AccountFrame } from "./account-frame";

export function NewPasswordPage() {
  const { key = "" } = useParams();
  const [password, setPassword] = useState("");
  const [endKeys, setEndKeys] = useState(false);
  const reset = useMutation({ mutationFn: resetPassword });

  function onSubmit(event: SyntheticEvent) {
    event.preventDefault();
    reset.mutate({ key, password, end_keys: endKeys });
  }

  return (
    <AccountFrame title="Set a new password">
      {reset.isSuccess ? (
        <div className="space-y-4">
          <Notice title="Your password is changed.">
            Every browser that was signed in is signed out.{" "}
            {endKeys ? "Your API keys have ended too." : "API keys go on."}
          </Notice>
          <ButtonLink to="/signin" look="primary" className="w-full">
            Sign in
          </ButtonLink>
        </div>
      ) : (
        <form onSubmit={onSubmit} className="space-y-4" noValidate>
          <ErrorNotice error={reset.error} />
          <TextField
            label="New password"
            type="password"
            autoComplete="new-password"
            autoFocus
            required
            value={password}
            onChange={setPassword}
            description="At least 8 characters."
            error={fieldsOf(reset.error).password}
          />
          <label className="flex items-start gap-2">
            <input
              type="checkbox"
              className="mt-0.5"
              checked={endKeys}
              onChange={(event) => {
                setEndKeys(event.target.checked);
              }}
            />
            <span>
              End my API keys
              <span className="block text-xs text-muted">
                If somebody else may have had your password. Programs that use the keys stop.
              </span>
            </span>
          </label>
          <Button type="submit" look="primary" className="w-full" disabled={reset.isPending}>
            Set password
          </Button>
        </form>
      )}
    </AccountFrame>
  );
}
