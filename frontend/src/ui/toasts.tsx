// What is said in passing, in a corner of the window: that something was done, or that the server is away for a moment.
import { useEffect } from "react";
import { toast, Toaster as Sonner } from "sonner";
import { isUnreachable } from "../api/errors";
import { ErrorNotice, Notice } from "./notice";

export function Toaster() {
  return (
    <Sonner
      position="bottom-right"
      className="print:hidden"
      toastOptions={{ unstyled: true, classNames: { toast: "w-full", content: "w-full" } }}
    />
  );
}

/** The same words again take the place of those before. */
export function showToast(text: string): void {
  toast(<Notice title={text} />, { id: text });
}

/** Shown for as long as there is such an error, but for a server that does not answer: the frame says so. */
export function useErrorToast(id: string, error: Error | null): void {
  useEffect(() => {
    if (error && !isUnreachable(error))
      toast(<ErrorNotice error={error} />, { id, duration: Infinity, dismissible: false });
    else toast.dismiss(id);
  }, [id, error]);
  useEffect(
    () => () => {
      toast.dismiss(id);
    },
    [id],
  );
}
