package notifications_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/egress/egresstest"
	"github.com/turnstone-run/turnstone/internal/notifications"
)

// No URL of a webhook in a workflow definition reaches a private server.
func TestAttacks(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodPut, http.MethodDelete} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			egresstest.Exercise(t, egresstest.Harness{IgnoresBody: true, Fetch: func(ctx context.Context, c *egress.Client, url string) error {
				web := &egresstest.Counted{HTTP: c}
				w := notifications.Webhook{
					Tenant: "acme", Method: method, URL: url, Header: map[string]string{"X-Token": "quiet-header"}, Body: []byte("quiet-body"), Key: "quiet-key",
				}
				answer, err := (&notifications.Webhooks{HTTP: web}).Send(ctx, w, func() error { return nil })
				require.LessOrEqual(t, web.N.Load(), int32(1), "a request is not repeated")
				if err == nil && answer.Status >= http.StatusMultipleChoices { // a redirect that is not followed is an error, as in the workflow's task
					return agent.Invalid("", "answered %d", answer.Status)
				}
				if err == nil {
					return nil
				}
				for _, hidden := range []string{"quiet", "meta-data", "_GET%20", "/etc", "/redirect/"} {
					require.NotContains(t, err.Error(), hidden)
				}
				if code := agent.CodeOf(err); !strings.Contains(url, "/redirect/") && (code == agent.CodeDenied || code == agent.CodeInvalid) {
					require.NotErrorIs(t, err, notifications.ErrUnknown, "it was refused before it was sent")
				}
				return err
			}})
		})
	}
}
