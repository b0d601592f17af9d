"""cli: the command `minigrad`, which joins the commands of the packages below; `__main__` lists them."""
