package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	"github.com/turnstone-run/turnstone/internal/cluster"
)

func (a *app) setupCommand() *cobra.Command {
	var connection cluster.Connection
	cmd := &cobra.Command{
		Use: "setup", Short: "Register Turnstone's search attributes on a Temporal cluster", Args: cobra.NoArgs,
		Long: `Registers in a namespace the search attributes that it lacks of TurnstoneTenant, TurnstoneAgent, TurnstoneSession, TurnstoneStatus and
TurnstoneStopReason. Turns run without them too; the Web UI then cannot find turns by them.

The connection is that of the temporal command line: TEMPORAL_* variables, or a profile in temporal.toml.`,
		Example: "  starter setup --address 127.0.0.1:7233\n  starter setup --profile production",
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := cluster.Options(connection, a.env)
			if err != nil {
				return usageError{err}
			}
			temporal, err := client.DialContext(cmd.Context(), options)
			if err != nil {
				return fmt.Errorf("connect to Temporal: %w", err)
			}
			defer temporal.Close()
			if err := cluster.AddAttributes(cmd.Context(), temporal, options.Namespace); err != nil {
				return err
			}
			return a.printResult(map[string]string{"namespace": options.Namespace}, "namespace %s has Turnstone's search attributes", options.Namespace)
		},
	}
	cmd.Flags().StringVar(&connection.Address, "address", "", "Temporal frontend (host:port)")
	cmd.Flags().StringVar(&connection.Namespace, "namespace", "", "Temporal namespace")
	cmd.Flags().StringVar(&connection.Profile, "profile", "", "profile in temporal.toml")
	return cmd
}
