package devstack

import (
	"fmt"
	"strconv"
	"time"
)

// DynamicSetting is an entry of the Temporal server's dynamic configuration. Value is an int, a bool or a time.Duration.
type DynamicSetting struct {
	Key   string
	Value any
}

// JSON returns the value as JSON, as the temporal command expects it.
func (s DynamicSetting) JSON() string {
	if d, ok := s.Value.(time.Duration); ok {
		return strconv.Quote(d.String())
	}
	return fmt.Sprint(s.Value)
}

// DynamicSettings returns settings for a server with one shard on one node. The defaults are limits per shard or per node of a large cluster.
func DynamicSettings() []DynamicSetting {
	return []DynamicSetting{
		// The default of 20 polls per second and shard limits one shard to ten workflows per second, and adds about 99 ms to each step of a turn.
		{"history.transferProcessorMaxPollRPS", 2000},
		{"history.timerProcessorMaxPollRPS", 2000},
		{"history.visibilityProcessorMaxPollRPS", 2000},
		{"history.outboundProcessorMaxPollRPS", 2000},

		{"frontend.rps", 20_000},
		{"history.rps", 50_000},
		{"matching.rps", 20_000},
		{"frontend.persistenceMaxQPS", 20_000},
		{"history.persistenceMaxQPS", 50_000},
		{"matching.persistenceMaxQPS", 20_000},
		{"frontend.namespaceRPS.visibility", 500}, // with the default of 10, lists and the Web UI fail
		{"frontend.namespaceRPS", 20_000},
		{"system.forceSearchAttributesCacheRefreshOnRead", true}, // makes a new attribute work at once
		{"system.forceNexusEndpointRefreshOnRead", true},
		{"system.namespaceCacheRefreshInterval", time.Second},
		// About one in a thousand notifications of a workflow's end is lost. Its waiters then ask again after this interval.
		{"history.longPollExpirationInterval", 2 * time.Second},
	}
}
