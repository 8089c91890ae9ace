// Package host is the worker process: it takes what host/config read, finds
// each connector's plugin, prepares its group and topics, runs its tasks, and
// starts a task again where that can help.
//
// Connectors are independent: a connector that cannot start, or whose tasks
// fail, touches no other. Only this package knows both loader and sharetask.
package host
