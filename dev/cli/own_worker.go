package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// ownDatabase is the database for a worker of the user's own beside the stack's, and ownQueue its task queue: each of the two has its own turns.
const (
	ownDatabase = "own"
	ownQueue    = "own"
)

// ownWorker is the environment of a worker that somebody runs beside the stack, or in place of the stack's.
type ownWorker struct {
	inPlace bool // the stack's gateway takes the requests, and this worker runs the turns
	values  [][2]string
}

// prepareOwnWorker returns the environment for a worker of the user's own; nil if it could not reach the database. It makes its database.
func (h *instance) prepareOwnWorker(ctx context.Context) (*ownWorker, error) {
	set := h.settings
	dsn := set.Database.URL.Reveal()
	w := &ownWorker{inPlace: !set.Worker.Enabled}
	if !w.inPlace {
		if h.stack.Postgres == nil {
			return nil, nil //nolint:nilnil // somebody's own server: no database is made there
		}
		if err := postgres.CreateDatabase(ctx, dsn, ownDatabase); err != nil {
			return nil, fmt.Errorf("make the database of your own worker: %w", err)
		}
		dsn = h.stack.Postgres.DSNFor(ownDatabase)
	}
	w.add("DATABASE_URL", dsn)
	w.add("TEMPORAL_ADDRESS", set.Temporal.Address)
	w.add("TEMPORAL_NAMESPACE", set.Temporal.Namespace)
	w.add("TURNSTONE_LLM_PROVIDER", set.LLM.Provider)
	w.add("TURNSTONE_LLM_MODEL", set.LLM.Model)
	w.add("TURNSTONE_LLM_BASE_URL", set.LLM.BaseURL)
	w.add("TURNSTONE_EGRESS_ALLOW_PRIVATE", strings.Join(set.Egress.AllowPrivate, ","))
	if w.inPlace {
		w.add("TURNSTONE_TEMPORAL_TASK_QUEUE", set.Temporal.TaskQueue)
		w.add("TURNSTONE_STORAGE_BLOB_URL", set.Storage.BlobURL.Reveal())
		w.add("TURNSTONE_GATEWAY_ENABLED", "false")
		return w, nil
	}
	w.add("TURNSTONE_TEMPORAL_TASK_QUEUE", ownQueue)
	w.add("TURNSTONE_DATA_DIR", filepath.Join(h.folder, ownDatabase))
	for _, door := range [][2]string{{"TURNSTONE_HTTP_ADDR", set.HTTP.Addr}, {"TURNSTONE_GRPC_ADDR", set.GRPC.Addr}} {
		addr, held, err := holdAddress(ctx, nextPort(door[1]), true)
		if err != nil {
			return nil, err
		}
		h.held = append(h.held, held) // so that both differ
		w.add(door[0], addr)
	}
	return w, h.releaseDoors()
}

func (w *ownWorker) add(name, value string) {
	if value != "" {
		w.values = append(w.values, [2]string{name, value})
	}
}

// value returns the value of a variable.
func (w *ownWorker) value(name string) string {
	for _, v := range w.values {
		if v[0] == name {
			return v[1]
		}
	}
	return ""
}

// print prints the environment as a shell reads it.
func (w *ownWorker) print(to io.Writer, example string) {
	intro := "A worker of your own beside this one, with a task queue and a database of its own. Paste into a shell:"
	if w.inPlace {
		intro = "No worker runs: turns wait for yours. Paste into a shell:"
	}
	fmt.Fprintf(to, "\n%s\n\n  export", intro)
	for _, v := range w.values {
		fmt.Fprintf(to, " \\\n    %s=%s", v[0], shellQuote(v[1]))
	}
	fmt.Fprintf(to, "\n  %s\n", example)
	if door := w.value("TURNSTONE_HTTP_ADDR"); door != "" {
		fmt.Fprintf(to, "\nAsk it with --server %s.\n", (&app.HTTP{Addr: door}).LocalURL())
	}
}

// shellQuote returns a text as one word of a shell.
func shellQuote(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return strings.ContainsRune(" '\"\\$&?*;<>()|`!#~[]{}", r) }) {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return text
}

// nextPort returns an address with the port behind its own, or with any port if that has no number.
func nextPort(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	n, err := strconv.Atoi(port)
	if err != nil || n >= 65535 {
		return net.JoinHostPort(host, "0")
	}
	return net.JoinHostPort(host, fmt.Sprint(n+1))
}
