# Run once at each deployment, with JOBBOARD_URI and JOBBOARD_NAME=shop in the environment.
jobboard schedule add close-day close_day --cron '0 3 * * *' --tz Europe/Berlin --if-exists replace  # glue
