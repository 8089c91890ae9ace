// Package model searches all that can happen to one source record under the
// exactly-once protocol of package sharetask/exactlyonce, up to a number of
// tasks and attempts: every order of their steps, crashes and fencing at each of
// them, answers that are lost, transaction markers that are late, and any number
// of members that hold the record at once, since a record lock promises nothing.
//
// It also searches protocols that leave a part out, and must find what is wrong
// with them: that shows that it can.
package model
