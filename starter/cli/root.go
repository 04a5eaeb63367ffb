// Package cli is the command line that talks to a running server. The programs starter and turnstone use it.
package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/cmdline"
)

const defaultServer = "http://127.0.0.1:8080"

// app is one run of the command line with its streams, environment and flags.
type app struct {
	program       string           // name by which the program was called
	otherCommands []*cobra.Command // commands of the program that are not defined in this package
	in            io.Reader
	out, errOut   io.Writer
	outIsTerminal bool
	errIsTerminal bool
	interrupts    <-chan os.Signal
	env           []string
	useColor      bool // color diffs
	width         int  // of the terminal; 0: tables are not shortened
	version       cmdline.Version
	lines         *lineReader

	// These come from the environment; the flags of the same name override them.
	server string
	redis  string

	key     string // from the environment
	keyFile string // overrides key
	ca      string // PEM file of certificate authorities
	tenant  string
	output  string // text or json
}

const longHelp = `starter talks to a running Turnstone server.

Exit codes:
  0    the turn completed, or the command did what it should
  1    the turn or a check failed, or the server had an internal error
  2    wrong flags or arguments or files, or the server refused the request
  3    the server cannot be reached, is not available, or lets nobody in just now
  4    the turn was cancelled
  130  interrupted`

const rootExample = `  # ask once
  starter chat "fetch flights from NYC to LAX, sort by price, show top 3"

  # a conversation, line by line
  starter chat --session trip-1

  # start now, look later
  starter start "fetch flights from NYC to LAX" --output json
  starter tail <turn>
  starter results get <turn>
  starter results export <turn> -o rows.csv

  # what ran, whose it was, and how it ended
  starter turns --status failed --since 24h
  starter sessions list --text flights

  # what waits for a person
  starter approvals list
  starter approvals decide <approval> approve --by me

  # what runs by the clock
  starter schedules create morning "what happened overnight?" --cron "0 7 * * 1-5" --time-zone Europe/Berlin

  # who may call
  starter keys create laptop --scope 'turns.*'
  starter audit --outcome denied --since 24h

  # what ask agents read
  starter knowledge add handbook docs/

  # processes, and tools that were made of pipelines
  starter workflows put main -f main.yaml
  starter workflows run main --wait
  starter tools list

  # what there is, and who would answer
  starter agents list
  starter catalog apply catalog/
  starter route --role trader --page /portfolio`

// run executes one command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	a.lines = newLineReader(a.in)
	root := a.rootCommand()
	root.SetArgs(append([]string{}, args...)) // nil would mean the arguments of this process
	err := root.ExecuteContext(ctx)
	if err != nil && !errors.As(err, new(turnEnded)) && !errors.As(err, new(exitStatus)) {
		a.printError(err)
		if hint := a.hintFor(err); hint != "" {
			a.printNote("%s", hint)
		}
	}
	return exitCode(err)
}

// printError prints an error. It prints faults of catalog documents one a line, so that an editor can jump to them.
func (a *app) printError(err error) {
	faults, ok := errors.AsType[agent.Faults](err)
	if !ok {
		a.printNote("Error: %v", err)
		return
	}
	a.printFaults(a.errOut, faults)
	a.printNote("Error: refused; nothing was changed")
}

// maxFaults is the largest number of faults that are printed.
const maxFaults = 200

func (a *app) printFaults(to io.Writer, faults agent.Faults) {
	for i := range faults[:min(len(faults), maxFaults)] {
		fmt.Fprintln(to, cmdline.OneLine(cmdline.Printable(faults[i].String()), 1000))
	}
	if more := len(faults) - maxFaults; more > 0 {
		fmt.Fprintf(to, "… and %d more\n", more)
	}
}

// hintFor returns what a person can do about an error, or "".
func (a *app) hintFor(err error) string {
	//nolint:gosec // a hint for people, no credential
	const invalidCredential = "The credential of %s is not valid on this server, or has expired; starter keys create makes a new one."
	switch code := agent.CodeOf(err); {
	case code == agent.CodeUnauthenticated && a.keyFile != "":
		return fmt.Sprintf(invalidCredential, "--key-file")
	case code == agent.CodeUnauthenticated && a.key != "":
		return fmt.Sprintf(invalidCredential, "TURNSTONE_KEY")
	case code == agent.CodeUnauthenticated:
		return remedyNoKey
	case code == agent.CodeRateLimited:
		if e, ok := errors.AsType[*agent.Error](err); ok && e.RetryAfter > 0 {
			return "Try again in " + e.RetryAfter.String() + "."
		}
		return ""
	case errors.Is(err, client.ErrUnreachable):
		return "Is the server running? Start one with: go run ./dev   or name it with --server or TURNSTONE_SERVER."
	case errors.As(err, new(usageError)):
		return `See "starter help".`
	default:
		return ""
	}
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use: cmp.Or(a.program, standalone), Short: "Talk to a running Turnstone server", Long: longHelp, Example: rootExample,
		SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.errOut)
	flags := root.PersistentFlags()
	flags.StringVar(&a.server, "server", cmp.Or(a.server, defaultServer), "address of the server (env TURNSTONE_SERVER)")
	flags.StringVar(&a.keyFile, "key-file", "", "file with the API key or token to call with (default: env TURNSTONE_KEY)")
	flags.StringVar(&a.ca, "ca", "", "PEM file of who signed the server's certificate (default: the system's)")
	flags.StringVar(&a.tenant, "tenant", "", "tenant to act for (default: the credential's, or the server's)")
	flags.StringVarP(&a.output, "output", "o", "text", "text or json")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		return requireOneOf("output", a.output, "text or json")
	}
	root.AddCommand(a.chatCommand(), a.startCommand(), a.rerunCommand(), a.tailCommand(), a.cancelCommand(), a.decideCommand(), a.resultsCommand(),
		a.jobsCommand(), a.workflowsCommand(), a.toolsCommand(),
		a.approvalsCommand(), listGroup("turns", a.turnsListCommand, a.turnsShowCommand()), a.sessionsCommand(), a.knowledgeCommand(), a.doctorCommand(),
		listGroup("agents", a.agentsListCommand), listGroup("nodes", a.nodesListCommand), a.catalogCommand(), a.routeCommand(), a.planCommand(),
		a.versionCommand(),
		a.messageCommand(), a.schedulesCommand(), a.linksCommand(), a.keysCommand(), a.whoamiCommand(), a.auditCommand(),
		a.usageCommand(), a.retentionCommand(), a.eraseCommand(), a.erasuresCommand(), a.setupCommand())
	root.AddCommand(a.otherCommands...)
	a.addCompletions(root)
	a.groupCommands(root)
	cmdline.Rename(root, standalone, root.Name())
	cmdline.Finish(root, nil, func(err error) error { return usageError{err} })
	return root
}

// maxKeyFile is the largest size of a key file in bytes.
const maxKeyFile = 64 << 10

// readKey returns the credential in a file, which must not be empty.
func readKey(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // read-only
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return "", err
	}
	key := strings.TrimSpace(string(text))
	switch {
	case key == "":
		return "", fmt.Errorf("%s is empty", name)
	case len(text) > maxKeyFile:
		return "", fmt.Errorf("%s is no file with a key: it has more than %d bytes", name, maxKeyFile)
	}
	return key, nil
}

// newHTTPClient returns an HTTP client that trusts only the certificate authorities in a PEM file.
func newHTTPClient(caFile string) (*http.Client, error) {
	text, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate", caFile)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // net/http documents the type
	transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return &http.Client{Transport: transport}, nil
}

// printJSON prints a value as JSON.
func (a *app) printJSON(v any) error { return writeJSON(a.out, v, "  ") }

// printJSONLine prints a value as one line of JSON.
func (a *app) printJSONLine(v any) error { return writeJSON(a.out, v, "") }

func writeJSON(to io.Writer, v any, indent string) error {
	e := json.NewEncoder(to)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print program, version, commit and Go", Args: cobra.NoArgs,
		Example: "  starter version\n  starter version -o json | jq -r .version",
		RunE: func(*cobra.Command, []string) error {
			return a.printResult(a.version, "%s", a.version)
		},
	}
}
