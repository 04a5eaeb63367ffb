package embedded

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	"github.com/temporalio/ui-server/v2/server/server_options"

	"github.com/turnstone-run/turnstone/internal/devstack"
)

// webUI is the Temporal Web UI in this process.
type webUI struct {
	url    string
	server *server.Server
	ended  chan struct{}
}

// startWebUI serves the Web UI for the frontend at address and waits until it answers. The port must be free, or the Web UI's code ends this process.
func startWebUI(ctx context.Context, port int, address string, cfg devstack.TemporalConfig) (*webUI, error) {
	ui := &webUI{
		url: "http://" + devstack.HostPort(port),
		server: server.NewServer(server_options.WithConfigProvider(&uiconfig.Config{
			TemporalGRPCAddress: address,
			Host:                devstack.Loopback,
			Port:                port,
			EnableUI:            true,
			DefaultNamespace:    devstack.Namespace,
			Codec:               uiconfig.Codec{Endpoint: cfg.CodecEndpoint},
			HideLogs:            true,
			DisableNewsFetch:    true,                                // send no requests to other machines
			CORS:                uiconfig.CORS{CookieInsecure: true}, // because it is plain HTTP
		})),
		ended: make(chan struct{}),
	}
	go func() {
		defer close(ui.ended)
		_ = ui.server.Start() // returns nil after stop, and no other error
	}()
	if err := ui.awaitAnswer(ctx); err != nil {
		ui.stop()
		return nil, err
	}
	return ui, nil
}

func (ui *webUI) awaitAnswer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, devstack.ReadyTimeout)
	defer cancel()
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	err := devstack.Until(ctx, func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, ui.url+"/healthz", http.NoBody)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close() //nolint:errcheck // read-only
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %s", resp.Status)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("wait for the Web UI: %w", err)
	}
	return nil
}

// stop closes the listener and all connections, and waits until the server has ended.
func (ui *webUI) stop() {
	ui.server.Stop()
	<-ui.ended
}
