// Sign in with the identity provider of the server's settings; nothing where there is none.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useSearchParams } from "react-router";
import { providerName, signInByProvider } from "../../api/auth";
import { Button } from "../../ui/button";
import { ErrorNotice } from "../../ui/notice";

export function ProviderButton() {
  const [search] = useSearchParams();
  const name = useQuery({ queryKey: ["provider-name"], queryFn: async () => (await providerName()) ?? "", staleTime: Infinity });
  const leave = useMutation({
    mutationFn: () => signInByProvider(`/signin/done?next=${encodeURIComponent(search.get("next") ?? "/sessions")}`),
  });
  if (!name.data) return null;
  return (
    <div className="mt-4 space-y-4 border-t border-line pt-4">
      <ErrorNotice error={leave.error} />
      <Button
        className="w-full"
        disabled={leave.isPending}
        onClick={() => {
          leave.mutate();
        }}
      >
        Continue with {name.data}
      </Button>
    </div>
  );
}
