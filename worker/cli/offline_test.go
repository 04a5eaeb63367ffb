package cli

import (
	"net/http"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/app"
)

func TestOfflineModel(t *testing.T) {
	for name, c := range map[string]struct {
		env  []string
		want bool
	}{
		"not configured":     {nil, false},
		"configured":         {[]string{"TURNSTONE_LLM_PROVIDER=offline"}, true},
		"auto without a key": {[]string{"TURNSTONE_LLM_PROVIDER=auto"}, true},
		"auto with a key":    {[]string{"TURNSTONE_LLM_PROVIDER=auto", "OPENAI_API_KEY=sk-1"}, false},
		"with a base URL":    {[]string{"TURNSTONE_LLM_PROVIDER=offline", "TURNSTONE_LLM_BASE_URL=http://127.0.0.1:1/v1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			run := &command{program: "worker", env: append(c.env, "TURNSTONE_LOG_LEVEL=error")}
			cmd := &cobra.Command{}
			app.AddFlags(cmd.Flags())
			settings, err := run.load(cmd)
			require.NoError(t, err)
			require.Equal(t, c.want, settings.WantsOfflineModel())
			if !c.want {
				return
			}
			model, err := run.startOfflineModel(t.Context(), settings)
			require.NoError(t, err)
			defer model.Close(t.Context())
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, settings.LLM.BaseURL+"/chat/completions",
				strings.NewReader(`{"model":"`+settings.LLM.Model+`","messages":[{"role":"user","content":"say 3 words"}]}`))
			require.NoError(t, err)
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			require.Equal(t, http.StatusOK, resp.StatusCode)
		})
	}
}
