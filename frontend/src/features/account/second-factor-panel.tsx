// The second factor: switch it on with an authenticator app, keep the recovery codes, switch it off.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { QRCodeSVG } from "qrcode.react";
import { useState, type ReactNode, type SyntheticEvent } from "react";
import { fieldsOf } from "../../api/errors";
import {
  authenticatorsQuery,
  beginEnrolment,
  endSecondFactor,
  enrol,
  type Enrolment,
} from "../../api/security";
import { Badge } from "../../ui/badge";
import { Button } from "../../ui/button";
import { CopyBlock } from "../../ui/copy";
import { TextField } from "../../ui/field";
import { ErrorNotice, Notice } from "../../ui/notice";
import { Panel } from "../../ui/panel";

export function SecondFactorPanel() {
  const client = useQueryClient();
  const { data: authenticators, error } = useQuery(authenticatorsQuery);
  const onSuccess = () => client.invalidateQueries({ queryKey: authenticatorsQuery.queryKey });
  const begin = useMutation({ mutationFn: beginEnrolment, gcTime: 0 });
  const finish = useMutation({ mutationFn: enrol, gcTime: 0, onSuccess });
  const end = useMutation({ mutationFn: endSecondFactor, onSuccess });
  const isOn = authenticators?.some((entry) => entry.type === "totp");
  const left = authenticators?.find((entry) => entry.type === "recovery_codes")?.unused_code_count;
  return (
    <Panel
      title="Second factor"
      actions={
        authenticators && <Badge tone={isOn ? "good" : "neutral"}>{isOn ? "on" : "off"}</Badge>
      }
    >
      <div className="space-y-4 p-4">
        <ErrorNotice error={error ?? begin.error} />
        {finish.data && (
          <Notice title="It is on. Keep these recovery codes where your telephone is not.">
            <CopyBlock label="Recovery codes" text={finish.data.join("\n")} />
          </Notice>
        )}
        {isOn && (
          <>
            <p className="text-muted">
              Signing in asks for a code of your app.{" "}
              {left !== undefined && `${String(left)} recovery codes are left.`}
            </p>
            <PasswordForm
              action="Switch off"
              error={end.error}
              busy={end.isPending}
              onSubmit={(password) => {
                end.mutate(password);
              }}
            />
          </>
        )}
        {authenticators && !isOn && !begin.data && (
          <>
            <p className="text-muted">
              With it, nobody signs in as you with a stolen password alone.
            </p>
            <Button
              disabled={begin.isPending}
              onClick={() => {
                begin.mutate();
              }}
            >
              Switch on
            </Button>
          </>
        )}
        {!isOn && begin.data && (
          <Enrol
            enrolment={begin.data}
            error={finish.error}
            busy={finish.isPending}
            onSubmit={finish.mutate}
          />
        )}
      </div>
    </Panel>
  );
}

interface EnrolProps {
  enrolment: Enrolment;
  error: Error | null;
  busy: boolean;
  onSubmit: (answer: { password: string; code: string }) => void;
}

function Enrol({ enrolment, error, busy, onSubmit }: EnrolProps) {
  const [code, setCode] = useState("");
  return (
    <>
      <div className="flex flex-col gap-4 sm:flex-row sm:items-center">
        {/* Drawn here: the secret goes nowhere. Dark on light with its margin in either theme, as cameras want it. */}
        <QRCodeSVG
          value={enrolment.totp_url}
          size={192}
          marginSize={4}
          title="QR code of the secret"
          className="shrink-0 self-center rounded-md border border-line"
        />
        <div className="min-w-0 flex-1 space-y-3">
          <p>
            Scan this with your authenticator app, or{" "}
            <a href={enrolment.totp_url} className="font-medium text-accent hover:underline">
              open it there
            </a>
            . Where neither works, type the secret in.
          </p>
          <CopyBlock label="Secret" text={enrolment.secret} />
        </div>
      </div>
      <PasswordForm
        action="Confirm"
        error={error}
        busy={busy}
        onSubmit={(password) => {
          onSubmit({ password, code: code.trim() });
        }}
      >
        <TextField
          label="Code that the app shows"
          inputMode="numeric"
          autoComplete="one-time-code"
          value={code}
          onChange={setCode}
          error={fieldsOf(error).code}
        />
      </PasswordForm>
    </>
  );
}

interface PasswordFormProps {
  action: string;
  error: Error | null;
  busy: boolean;
  onSubmit: (password: string) => void;
  children?: ReactNode;
}

function PasswordForm({ action, error, busy, onSubmit, children }: PasswordFormProps) {
  const [password, setPassword] = useState("");
  function submit(event: SyntheticEvent) {
    event.preventDefault();
    onSubmit(password);
  }
  return (
    <form onSubmit={submit} className="space-y-4" noValidate>
      <ErrorNotice error={error} />
      {children}
      <TextField
        label="Your password"
        type="password"
        autoComplete="current-password"
        value={password}
        onChange={setPassword}
        error={fieldsOf(error).password}
      />
      <Button type="submit" disabled={busy || !password}>
        {action}
      </Button>
    </form>
  );
}
