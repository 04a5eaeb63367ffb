package turnstone

import (
	"context"
	"fmt"
	"sync"

	"github.com/turnstone-run/turnstone/agent"
)

// Channel is a channel of the embedding program. Its name is for logs and errors.
type Channel struct {
	Name    string
	Channel agent.Channel
}

// startChannels serves the configured channels until [Service.Stop], which ends their context and waits for them. A channel that fails before
// that ends the service.
func (s *Service) startChannels(ctx, _ context.Context) error {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	all := s.cfg.Channels
	if s.bot != nil && s.cfg.Settings.Gateway.Enabled { // a worker alone only notifies: polling allows one process
		all = append([]Channel{{Name: "telegram", Channel: s.bot}}, all...)
	}
	for _, c := range all {
		running.Go(func() {
			if err := c.Channel.Serve(serving, s.inbox); err != nil && serving.Err() == nil {
				select {
				case s.failed <- fmt.Errorf("channel %q: %w", c.Name, err):
				case <-serving.Done():
				}
			}
		})
	}
	s.stopChannels = func(ctx context.Context) {
		stop()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			running.Wait()
		}()
		select {
		case <-ended:
		case <-ctx.Done(): // a channel that does not return
		}
	}
	return nil
}

func checkChannels(channels []Channel) error {
	for i, c := range channels {
		switch {
		case c.Name == "":
			return agent.Invalid(fmt.Sprintf("channels[%d].name", i), "is empty")
		case c.Channel == nil:
			return agent.Invalid(fmt.Sprintf("channels[%d].channel", i), "is missing")
		}
	}
	return nil
}
