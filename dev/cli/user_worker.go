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

// The database and the task queue of a user's worker that runs beside the stack's worker.
const (
	userDatabase = "own"
	userQueue    = "own"
)

// userWorker is the environment of a worker that the user runs beside the stack's worker, or in place of it.
type userWorker struct {
	replacesStack bool // there is no other worker, and requests come to the stack's gateway
	values        [][2]string
}

// prepareUserWorker returns the environment for a user's worker and, if the stack has a worker too, creates a database for it. It returns nil if
// the database server is not the stack's.
func (inst *instance) prepareUserWorker(ctx context.Context) (*userWorker, error) {
	settings := inst.settings
	dsn := settings.Database.URL.Reveal()
	w := &userWorker{replacesStack: !settings.Worker.Enabled}
	if !w.replacesStack {
		if inst.stack.Postgres == nil {
			return nil, nil //nolint:nilnil // nothing to run
		}
		if err := postgres.CreateDatabase(ctx, dsn, userDatabase); err != nil {
			return nil, fmt.Errorf("make the database of your own worker: %w", err)
		}
		dsn = inst.stack.Postgres.DSNFor(userDatabase)
	}
	w.add("DATABASE_URL", dsn)
	w.add("TEMPORAL_ADDRESS", settings.Temporal.Address)
	w.add("TEMPORAL_NAMESPACE", settings.Temporal.Namespace)
	w.add("TURNSTONE_LLM_PROVIDER", settings.LLM.Provider)
	w.add("TURNSTONE_LLM_MODEL", settings.LLM.Model)
	w.add("TURNSTONE_LLM_BASE_URL", settings.LLM.BaseURL)
	w.add("TURNSTONE_EGRESS_ALLOW_PRIVATE", strings.Join(settings.Egress.AllowPrivate, ","))
	if w.replacesStack {
		w.add("TURNSTONE_TEMPORAL_TASK_QUEUE", settings.Temporal.TaskQueue)
		w.add("TURNSTONE_STORAGE_BLOB_URL", settings.Storage.BlobURL.Reveal())
		w.add("TURNSTONE_GATEWAY_ENABLED", "false")
		return w, nil
	}
	w.add("TURNSTONE_TEMPORAL_TASK_QUEUE", userQueue)
	w.add("TURNSTONE_DATA_DIR", filepath.Join(inst.folder, userDatabase))
	for _, door := range [][2]string{{"TURNSTONE_HTTP_ADDR", settings.HTTP.Addr}, {"TURNSTONE_GRPC_ADDR", settings.GRPC.Addr}} {
		addr, listener, err := holdAddress(ctx, nextPort(door[1]), true)
		if err != nil {
			return nil, err
		}
		inst.held = append(inst.held, listener) // so that the next address is another one
		w.add(door[0], addr)
	}
	return w, inst.releaseAddresses()
}

func (w *userWorker) add(name, value string) {
	if value != "" {
		w.values = append(w.values, [2]string{name, value})
	}
}

func (w *userWorker) value(name string) string {
	for _, v := range w.values {
		if v[0] == name {
			return v[1]
		}
	}
	return ""
}

// print prints commands for a shell: one that sets the environment, and an example that runs a worker.
func (w *userWorker) print(to io.Writer, example string) {
	intro := "A worker of your own beside this one, with a task queue and a database of its own. Paste into a shell:"
	if w.replacesStack {
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

// shellQuote returns text as one word for a shell.
func shellQuote(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return strings.ContainsRune(" '\"\\$&?*;<>()|`!#~[]{}", r) }) {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return text
}

// nextPort returns addr with the port plus 1, or with port 0 if there is no such port.
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
