package devstack

import (
	"strconv"
	"time"
)

// DynamicSetting is an entry of the Temporal server's dynamic configuration. Value is an int, a bool or a time.Duration.
type DynamicSetting struct {
	Key   string
	Value any
}

// JSON returns the value as the temporal command takes it.
func (s DynamicSetting) JSON() string {
	switch v := s.Value.(type) {
	case int:
		return strconv.Itoa(v)
	case bool:
		return strconv.FormatBool(v)
	case time.Duration:
		return strconv.Quote(v.String())
	default:
		return "null"
	}
}

// DynamicSettings returns the settings that raise limits which are meant for many shards on many nodes and are too low for one shard on one node.
func DynamicSettings() []DynamicSetting {
	return []DynamicSetting{
		// The default of 20 polls per second and shard caps a one-shard server at ten workflows per second, and
		// shows as a floor of about 99 ms under each step of a lone turn.
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
		{"frontend.namespaceRPS.visibility", 500}, // 10 makes the UI and lists fail
		{"frontend.namespaceRPS", 20_000},
		{"system.forceSearchAttributesCacheRefreshOnRead", true}, // a new attribute works at once
		{"system.forceNexusEndpointRefreshOnRead", true},
		{"system.namespaceCacheRefreshInterval", time.Second},
		// A close notification is missed about once in a thousand; the waiter then learns after this interval.
		{"history.longPollExpirationInterval", 2 * time.Second},
	}
}
