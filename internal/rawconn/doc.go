// Package rawconn reads and writes sockets without telling Go's scheduler, for
// connections that are used many times a second and else mostly idle.
//
// A system call by the net package is announced to the scheduler, so that others
// may have the processor if it blocks. If all was idle, the announcement wakes
// the runtime's monitor thread, which then looks 14,000 times a second whether
// something blocks, for 3.5 ms at least: a plugin process with four writers of
// 5 ms spent 17 % of its CPU on that, and its host 9 %. The sockets of package
// net never block, so there is nothing to look after.
package rawconn
