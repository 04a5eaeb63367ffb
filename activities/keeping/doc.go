// Package keeping has the activities of Retention: what is to be swept, and the sweeping, in batches that are committed one by one. The workflow
// knows names, times and numbers only.
package keeping
