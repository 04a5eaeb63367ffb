package turnstone

import (
	"github.com/spf13/pflag"

	"github.com/turnstone-run/turnstone/internal/app"
)

// ErrHelp is the error of [Load] for --help: it has printed the flags, and there is nothing else to do.
var ErrHelp = pflag.ErrHelp

// Load reads turnstone.yaml in the working folder, the environment and command-line arguments, each overriding the one before. All
// faults are reported at once.
func Load(args, env []string) (*Settings, error) {
	flags := pflag.NewFlagSet("turnstone", pflag.ContinueOnError)
	app.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	return app.Load(app.Sources{Flags: flags, Env: env, Dir: "."})
}
