// A modal dialog, and one that asks before something that cannot be undone. Focus and keys are Radix's.
import { AlertDialog as RadixAlert, Dialog as RadixDialog } from "radix-ui";
import { useRef, type ReactNode } from "react";
import { Button } from "./button";

const overlay = "fixed inset-0 z-10 bg-black/45";
const box =
  "fixed top-1/2 left-1/2 z-20 max-h-[calc(100vh-3rem)] w-[calc(100vw-3rem)] -translate-x-1/2 -translate-y-1/2 overflow-y-auto rounded-xl border border-line bg-raised p-5 shadow-xl";

interface DialogProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  title: string;
  description: string;
  wide?: boolean;
  /** Neither a click beside it nor Escape may lose what is shown once. */
  sticky?: boolean;
  children: ReactNode;
}

export function Dialog({
  open,
  onOpenChange,
  title,
  description,
  wide = false,
  sticky = false,
  children,
}: DialogProps) {
  const before = useRef<Element | null>(null);
  return (
    <RadixDialog.Root open={open} onOpenChange={onOpenChange}>
      <RadixDialog.Portal>
        <RadixDialog.Overlay className={overlay} />
        <RadixDialog.Content
          className={`${box} ${wide ? "max-w-2xl" : "max-w-md"}`}
          onOpenAutoFocus={() => {
            before.current = document.activeElement;
          }}
          onCloseAutoFocus={() => {
            // Radix gives the focus back to a trigger of its own alone.
            if (before.current instanceof HTMLElement) before.current.focus();
          }}
          onInteractOutside={(event) => {
            if (sticky) event.preventDefault();
          }}
          onEscapeKeyDown={(event) => {
            if (sticky) event.preventDefault();
          }}
        >
          <RadixDialog.Title className="text-base font-semibold">{title}</RadixDialog.Title>
          <RadixDialog.Description className="mt-1 mb-4 text-muted">
            {description}
          </RadixDialog.Description>
          {children}
        </RadixDialog.Content>
      </RadixDialog.Portal>
    </RadixDialog.Root>
  );
}

interface ConfirmProps {
  trigger: ReactNode;
  title: string;
  description: string;
  action: string;
  onConfirm: () => void;
}

export function Confirm({ trigger, title, description, action, onConfirm }: ConfirmProps) {
  return (
    <RadixAlert.Root>
      <RadixAlert.Trigger asChild>{trigger}</RadixAlert.Trigger>
      <RadixAlert.Portal>
        <RadixAlert.Overlay className={overlay} />
        <RadixAlert.Content className={`${box} max-w-md`}>
          <RadixAlert.Title className="text-base font-semibold">{title}</RadixAlert.Title>
          <RadixAlert.Description className="mt-1 break-words text-muted">
            {description}
          </RadixAlert.Description>
          <div className="mt-5 flex justify-end gap-2">
            <RadixAlert.Cancel asChild>
              <Button>Cancel</Button>
            </RadixAlert.Cancel>
            <RadixAlert.Action asChild>
              <Button look="danger" onClick={onConfirm}>
                {action}
              </Button>
            </RadixAlert.Action>
          </div>
        </RadixAlert.Content>
      </RadixAlert.Portal>
    </RadixAlert.Root>
  );
}
